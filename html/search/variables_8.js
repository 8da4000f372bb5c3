var searchData=
[
  ['id_5f_0',['id_',['../classkvc_1_1cpp_1_1Handle.html#a8746eca2d1e2297231b3eb0c7cab2158',1,'kvc::cpp::Handle']]],
  ['internal_1',['internal',['../structkvc__step.html#af48458bc0d9a06175c2378ebb3973380',1,'kvc_step']]]
];
