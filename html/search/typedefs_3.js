var searchData=
[
  ['tokens_0',['Tokens',['../kvcache_8hpp.html#ac42e2dcea01f3cdd7b0da53a7328cd0d',1,'kvc::cpp']]]
];
