var searchData=
[
  ['namespace_0',['Namespace',['../kvcache_8hpp.html#a65a4545a0f227dfe944d1043a910d953',1,'kvc::cpp']]]
];
