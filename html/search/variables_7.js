var searchData=
[
  ['head_5fdim_0',['head_dim',['../structkvc__storage__config.html#a9894cce1e45e727e12e36945b3545feb',1,'kvc_storage_config::head_dim()'],['../structkvc__storage__info.html#a3e3c70cacfc0781b8ef08008ca43d47e',1,'kvc_storage_info::head_dim()'],['../structkvc__model.html#a9ef17a80fed662a534c180002dc5e024',1,'kvc_model::head_dim()'],['../structkvc__rope__rows.html#af9dbd36ed79e9b55c19545a9e871bc4f',1,'kvc_rope_rows::head_dim()']]],
  ['head_5fstride_1',['head_stride',['../structkvc__rope__rows.html#a5ccc1161cbad6e70026ae2a0e7f0fc67',1,'kvc_rope_rows']]]
];
