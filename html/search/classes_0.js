var searchData=
[
  ['destroy_0',['Destroy',['../structkvc_1_1cpp_1_1Destroy.html',1,'kvc::cpp::Destroy'],['../structkvc_1_1cpp_1_1Destroy.html',1,'kvc::Destroy']]]
];
