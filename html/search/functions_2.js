var searchData=
[
  ['check_0',['check',['../kvcache_8hpp.html#ad98b59ef2933ac1a84289ba4680ee834',1,'kvc::cpp']]],
  ['commit_1',['commit',['../classkvc_1_1cpp_1_1Request.html#ac707427182977f6fcaf32a98a08b74de',1,'kvc::cpp::Request']]],
  ['create_2',['create',['../classkvc_1_1cpp_1_1Manager.html#a9815a39cb607db72f4a2ebf916eec3dc',1,'kvc::cpp::Manager']]]
];
