var searchData=
[
  ['offset_0',['offset',['../structkvc__run.html#a7c4a5db34808f770c4528ace482d2bb9',1,'kvc_run']]],
  ['open_5fblocks_1',['open_blocks',['../structkvc__storage__config.html#a0b84e0036820f2cdb0bbd45e86e2be08',1,'kvc_storage_config::open_blocks()'],['../structkvc__storage__info.html#a26b09d38f8e93d0871719812089e7ced',1,'kvc_storage_info::open_blocks()']]],
  ['open_5fbytes_2',['open_bytes',['../structkvc__storage__info.html#a0cfe77552bbe15d6d360849ba6e7e715',1,'kvc_storage_info::open_bytes()'],['../structkvc__memory__estimate.html#a12759b842e732801894740aa43689940',1,'kvc_memory_estimate::open_bytes()']]],
  ['out_3',['out',['../structkvc__attention.html#a9deac6a180f819a429975789df7baf08',1,'kvc_attention']]]
];
