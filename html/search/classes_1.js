var searchData=
[
  ['error_0',['Error',['../classkvc_1_1cpp_1_1Error.html',1,'kvc::cpp::Error'],['../classkvc_1_1cpp_1_1Error.html',1,'kvc::Error']]]
];
