var searchData=
[
  ['kvc_5fapi_0',['KVC_API',['../kvcache_8h.html#a6419526f2602a7eff8ef6f5e50e7bf80',1,'kvcache.h']]],
  ['kvc_5fmodel_5fmax_5flayers_1',['KVC_MODEL_MAX_LAYERS',['../kvcache_8h.html#a7c2d55d29271fa9543d9bca6f2898dcb',1,'kvcache.h']]],
  ['kvc_5fversion_5fmajor_2',['KVC_VERSION_MAJOR',['../kvcache_8h.html#abe99ae02bf40c17b0aef2b333d3a1784',1,'kvcache.h']]],
  ['kvc_5fversion_5fminor_3',['KVC_VERSION_MINOR',['../kvcache_8h.html#aaa414cb93f7d6308fedff502b9fbfaf1',1,'kvcache.h']]],
  ['kvc_5fversion_5fpatch_4',['KVC_VERSION_PATCH',['../kvcache_8h.html#afbad3e184f878f4dc14dcc62ab9fc900',1,'kvcache.h']]]
];
