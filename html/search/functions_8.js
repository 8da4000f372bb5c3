var searchData=
[
  ['id_0',['id',['../classkvc_1_1cpp_1_1Handle.html#a565febb8d6cb82f51c26e7d83944ea66',1,'kvc::cpp::Handle']]],
  ['info_1',['info',['../classkvc_1_1cpp_1_1Request.html#a59241e2eaca04dd77b7e0e44260e0dda',1,'kvc::cpp::Request']]]
];
