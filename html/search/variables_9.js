var searchData=
[
  ['k_0',['k',['../structkvc__rows.html#aecfc6aa9f4325c8c526996c27d07205e',1,'kvc_rows']]],
  ['k_5fhead_5fstride_1',['k_head_stride',['../structkvc__rows.html#acf1cb4f1348aaf7a165e9ff84b43447c',1,'kvc_rows']]],
  ['k_5flayer_5fstride_2',['k_layer_stride',['../structkvc__rows.html#aa3a341e612a4daf907196d292976a9dc',1,'kvc_rows']]],
  ['k_5fscale_3',['k_scale',['../structkvc__storage__config.html#a8d217898dbe06e1cb116659b33048dda',1,'kvc_storage_config::k_scale()'],['../structkvc__storage__info.html#ae8b3770d52dfe4e86a7cff6d8210eebf',1,'kvc_storage_info::k_scale()']]],
  ['k_5ftoken_5fstride_4',['k_token_stride',['../structkvc__rows.html#a5425711cc0d3996e7b6e633c31196468',1,'kvc_rows']]],
  ['kernels_5',['kernels',['../structkvc__attention__plan.html#ac2c350abfe0dbf3699419c07ce6b8d87',1,'kvc_attention_plan']]],
  ['keys_6',['keys',['../structkvc__attention__plan.html#a60de9f416cc7e125937a6c53700d7db1',1,'kvc_attention_plan']]],
  ['kind_7',['kind',['../structkvc__group__config.html#a0c781d0441cd7038e31f07850fb724b7',1,'kvc_group_config::kind()'],['../structkvc__event.html#aec13d09b33bebaaa3740898bf2fc9580',1,'kvc_event::kind()']]],
  ['kv_5flens_8',['kv_lens',['../structkvc__attention.html#a671d799297d950b33f6f462844412778',1,'kvc_attention']]]
];
