var searchData=
[
  ['latent_5fdim_0',['latent_dim',['../structkvc__model.html#afbc806540850b1b43655e5fc773dc753',1,'kvc_model']]],
  ['layer_1',['layer',['../structkvc__attention.html#adba94d4e842a0e8a97bc0819b2d1618d',1,'kvc_attention']]],
  ['layout_2',['layout',['../structkvc__storage__config.html#acc385dcdffb2347307e4b6c7e87262a9',1,'kvc_storage_config::layout()'],['../structkvc__storage__info.html#a81545a0b4d02a7ea427fdfbaf5073d5c',1,'kvc_storage_info::layout()']]],
  ['live_3',['live',['../structkvc__pool__info.html#a1ea006f2153bf93d8b4205a83cd52355',1,'kvc_pool_info']]],
  ['live_5frequests_4',['live_requests',['../structkvc__stats.html#a113e0eb6e1eb900fd876d692b00385f5',1,'kvc_stats']]],
  ['log_5',['log',['../structkvc__manager__config.html#a0772da59432df0c55578168f651b0950',1,'kvc_manager_config']]],
  ['log_5fuser_5fdata_6',['log_user_data',['../structkvc__manager__config.html#a9e94ef51074a919260c21dbe59038984',1,'kvc_manager_config']]],
  ['lookahead_7',['lookahead',['../structkvc__request__config.html#af9652fbafa17d0dfdf9560a96be4d412',1,'kvc_request_config']]],
  ['lost_5freuse_5ftokens_8',['lost_reuse_tokens',['../structkvc__request__info.html#a620045cfe76887349f62958ae5a29d4f',1,'kvc_request_info::lost_reuse_tokens()'],['../structkvc__probe__info.html#aa37aab859f8e01963d17951ab88ddb1f',1,'kvc_probe_info::lost_reuse_tokens()'],['../structkvc__stats.html#aab834f6bfc17bd256bf4f6cc63970b7e',1,'kvc_stats::lost_reuse_tokens()']]],
  ['lse_9',['lse',['../structkvc__attention.html#acb8c4d0511f9a79f3e38179a5379017a',1,'kvc_attention']]]
];
