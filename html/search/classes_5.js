var searchData=
[
  ['manager_0',['Manager',['../classkvc_1_1cpp_1_1Manager.html',1,'kvc::cpp::Manager'],['../classkvc_1_1cpp_1_1Manager.html',1,'kvc::Manager']]]
];
