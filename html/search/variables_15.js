var searchData=
[
  ['waiting_5frequests_0',['waiting_requests',['../structkvc__stats.html#ad9b42de62611338c8f99f153fd4318ab',1,'kvc_stats']]],
  ['watermark_5fblocks_1',['watermark_blocks',['../structkvc__manager__config.html#ab49ce4ee74d04d9a842b4f7d2841bb7b',1,'kvc_manager_config::watermark_blocks()'],['../structkvc__properties.html#aee285e5318c9f51ee39b513354c0bd62',1,'kvc_properties::watermark_blocks()']]],
  ['window_2',['window',['../structkvc__attention.html#a066b018ab3813b0bed090b03cd179707',1,'kvc_attention']]],
  ['window_5fblock_5fbytes_3',['window_block_bytes',['../structkvc__memory__estimate.html#a23f67a9f7d6485bd2a47e6b642e13858',1,'kvc_memory_estimate']]],
  ['window_5fblocks_4',['window_blocks',['../structkvc__memory__estimate.html#abcaeef8ee0ddb98d04475a33a7b74f64',1,'kvc_memory_estimate']]],
  ['window_5flayers_5',['window_layers',['../structkvc__model.html#ae7a23b15418611505ef13f1426780f3f',1,'kvc_model']]],
  ['window_5ftokens_6',['window_tokens',['../structkvc__group__config.html#a31f08b29eb5e2b627f2bf08f6783cb1d',1,'kvc_group_config::window_tokens()'],['../structkvc__model.html#a0f60abe070f51a7081071a4cb2aa057d',1,'kvc_model::window_tokens()']]]
];
