var searchData=
[
  ['v_0',['v',['../structkvc__rows.html#ac1af240146aeea5c94d79a60b9c5de62',1,'kvc_rows']]],
  ['v_5fhead_5fdim_1',['v_head_dim',['../structkvc__storage__config.html#a9788b9a9220a49960548c488b08778eb',1,'kvc_storage_config::v_head_dim()'],['../structkvc__storage__info.html#a5dc50ed991d48b2529a8e544c92dd45c',1,'kvc_storage_info::v_head_dim()'],['../structkvc__model.html#a791ea8c8227c3558d2ab8f0cb17b7897',1,'kvc_model::v_head_dim()']]],
  ['v_5fhead_5fstride_2',['v_head_stride',['../structkvc__rows.html#adf68c043ead8c30b22767729796f5a00',1,'kvc_rows']]],
  ['v_5flayer_5fstride_3',['v_layer_stride',['../structkvc__rows.html#a7541a4b5e9bc7b0e4495c76a1466fe0a',1,'kvc_rows']]],
  ['v_5fscale_4',['v_scale',['../structkvc__storage__config.html#a3dc765e233d8a991e9642e7ef081d3d5',1,'kvc_storage_config::v_scale()'],['../structkvc__storage__info.html#a7c1d556b73612b1a16642712c7f53ca7',1,'kvc_storage_info::v_scale()']]],
  ['v_5ftoken_5fstride_5',['v_token_stride',['../structkvc__rows.html#ae8008f0d1369d1d00b1293520974429e',1,'kvc_rows']]],
  ['values_6',['values',['../structkvc__attention__plan.html#adc5f4024cadaa35ef28f67d3f1351567',1,'kvc_attention_plan']]],
  ['verify_7',['verify',['../classkvc_1_1cpp_1_1Manager.html#af1d602e2121be0898746d232c1910972',1,'kvc::cpp::Manager']]],
  ['vocab_5fsize_8',['vocab_size',['../structkvc__manager__config.html#aa043d3580ced6d2cb581422032dc0cb2',1,'kvc_manager_config::vocab_size()'],['../structkvc__properties.html#aeb5f422d440e79cdfa014fbce91c6a0d',1,'kvc_properties::vocab_size()'],['../structkvc__model.html#a226168c776234920b938c863c45e0ab4',1,'kvc_model::vocab_size()']]]
];
