var searchData=
[
  ['unpublished_5fblocks_0',['unpublished_blocks',['../structkvc__stats.html#ac23c555f83737def4b9be0cd3ddc6010',1,'kvc_stats']]],
  ['user_5fdata_1',['user_data',['../structkvc__allocator.html#a348f8d431921cab0dcd0ff96a78a9632',1,'kvc_allocator::user_data()'],['../structkvc__request__config.html#a71a6220f619847139b534d6017a3584a',1,'kvc_request_config::user_data()'],['../structkvc__request__info.html#a1fe653bfd5274eb6a14c11fb23ea2d55',1,'kvc_request_info::user_data()']]]
];
