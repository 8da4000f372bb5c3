var searchData=
[
  ['fenced_0',['fenced',['../structkvc__pool__info.html#a8f5760b0e34a27843047ce5f0695aa4b',1,'kvc_pool_info']]],
  ['fill_5fid_1',['fill_id',['../structkvc__step.html#a84b57eefcd2c08818a983e9f23d95a8d',1,'kvc_step']]],
  ['filling_2',['filling',['../structkvc__pool__info.html#adbad4b944b0d445d06a29a74da8b645f',1,'kvc_pool_info']]],
  ['first_5fblock_3',['first_block',['../structkvc__pool__info.html#a361e8f2e9eb3445cf4903342b59d8bf4',1,'kvc_pool_info']]],
  ['first_5felement_4',['first_element',['../structkvc__rope__rows.html#a6a9b6ee7fae95d63bcdae2d39b209f1b',1,'kvc_rope_rows']]],
  ['first_5fhead_5',['first_head',['../structkvc__selection.html#ac903e6c12655790c4428b858a17d19c6',1,'kvc_selection']]],
  ['first_5flayer_6',['first_layer',['../structkvc__rows.html#ab5772f0c3f172007580c98959c7a708f',1,'kvc_rows::first_layer()'],['../structkvc__selection.html#aa601f80b3f76cb4ffe7e66d4bc140a30',1,'kvc_selection::first_layer()']]],
  ['first_5ftoken_7',['first_token',['../structkvc__extra__key.html#acd3d1a1f5948398d340b05057591dfff',1,'kvc_extra_key::first_token()'],['../structkvc__selection.html#a5c44f9076cb1ebf4a76835c9ff6e7e86',1,'kvc_selection::first_token()'],['../structkvc__rows.html#a7b0128a69c596d942d41c46ba79c6f5a',1,'kvc_rows::first_token()']]],
  ['flags_8',['flags',['../structkvc__rope__rows.html#a8ddd8cc0af0874acb933beb9c614cde9',1,'kvc_rope_rows::flags()'],['../structkvc__device__info.html#a212992025141f06b17b63bd193c83b65',1,'kvc_device_info::flags()'],['../structkvc__step.html#aa993a72c1cd156ac3ae36b5abc481724',1,'kvc_step::flags()'],['../structkvc__request__info.html#a45d5adec3d0533f2dbb33e25cc5689a2',1,'kvc_request_info::flags()'],['../structkvc__attention.html#aefa3b114032478a5c76bb15331f84db1',1,'kvc_attention::flags()'],['../structkvc__rows.html#a7accc1d3822a8b2a0fe7789aad4adca6',1,'kvc_rows::flags()'],['../structkvc__quant__format.html#a47b99d6bafd47e9eb7c9ca59bebf640f',1,'kvc_quant_format::flags()'],['../structkvc__storage__info.html#a9711b0a30359322d2b45d21ea8ab3fe7',1,'kvc_storage_info::flags()'],['../structkvc__storage__config.html#a91ab007eb419d0f8fb4e976bf35c0b22',1,'kvc_storage_config::flags()'],['../structkvc__request__config.html#aab4a3304cec3b8fe9a959060e5c08561',1,'kvc_request_config::flags()'],['../structkvc__properties.html#a4e19eabb21f20e7d3e3c3b0ac71e2d87',1,'kvc_properties::flags()'],['../structkvc__manager__config.html#a6bb4f83fdfb0656c2d5f8819bbbf99e8',1,'kvc_manager_config::flags()']]],
  ['fp16_5fbytes_9',['fp16_bytes',['../structkvc__quant__metrics.html#abb56681b230f14efa2183f836922e4fb',1,'kvc_quant_metrics']]],
  ['free_10',['free',['../structkvc__pool__info.html#a251fdd75405e99fafa62c2768042ee74',1,'kvc_pool_info']]],
  ['free_5fbytes_11',['free_bytes',['../structkvc__device__info.html#ac95469d8e09d113c4a3347f0e0bf58ca',1,'kvc_device_info']]],
  ['frees_12',['frees',['../structkvc__step.html#afd5dc94588b7d2566218c8b5993cc18c',1,'kvc_step']]],
  ['full_5fblock_5fbytes_13',['full_block_bytes',['../structkvc__memory__estimate.html#af22cbef93ddcfa3d562e467fb4f1aa30',1,'kvc_memory_estimate']]],
  ['full_5fblocks_14',['full_blocks',['../structkvc__memory__estimate.html#aa15c51e7c98563cd7095aee0a9727862',1,'kvc_memory_estimate']]]
];
