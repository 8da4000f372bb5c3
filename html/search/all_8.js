var searchData=
[
  ['id_0',['id',['../classkvc_1_1cpp_1_1Handle.html#a565febb8d6cb82f51c26e7d83944ea66',1,'kvc::cpp::Handle']]],
  ['id_5f_1',['id_',['../classkvc_1_1cpp_1_1Handle.html#a8746eca2d1e2297231b3eb0c7cab2158',1,'kvc::cpp::Handle']]],
  ['info_2',['info',['../classkvc_1_1cpp_1_1Request.html#a59241e2eaca04dd77b7e0e44260e0dda',1,'kvc::cpp::Request']]],
  ['internal_3',['internal',['../structkvc__step.html#af48458bc0d9a06175c2378ebb3973380',1,'kvc_step']]]
];
