var searchData=
[
  ['kvcache_2eh_0',['kvcache.h',['../kvcache_8h.html',1,'']]],
  ['kvcache_2ehpp_1',['kvcache.hpp',['../kvcache_8hpp.html',1,'']]]
];
