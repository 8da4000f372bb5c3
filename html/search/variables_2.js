var searchData=
[
  ['cached_0',['cached',['../structkvc__step.html#ab16e63945c7d20d836e45c4618a54b4d',1,'kvc_step::cached()'],['../structkvc__pool__info.html#a71b5c6300ef1161f383e5f48180a1b1d',1,'kvc_pool_info::cached()']]],
  ['cached_5ftokens_1',['cached_tokens',['../structkvc__stats.html#a643eeb45e373015ed7f0c5d5d7b81873',1,'kvc_stats']]],
  ['capacity_2',['capacity',['../structkvc__request__info.html#aa6f05f3fa2d34328b4d3acfe9837f2eb',1,'kvc_request_info']]],
  ['change_5fcapacity_3',['change_capacity',['../structkvc__step.html#a45d577c7ac6052510535bf590e8d03e9',1,'kvc_step']]],
  ['changes_4',['changes',['../structkvc__step.html#a6c53a78e688480e31b67c5b2f6bfb82e',1,'kvc_step']]],
  ['channel_5fkeys_5',['channel_keys',['../structkvc__memory__query.html#a5668f6937d055f3fac176bba26488047',1,'kvc_memory_query']]],
  ['channel_5ftokens_6',['channel_tokens',['../structkvc__memory__query.html#a028cbc29f2d3b844373f4314acb9781d',1,'kvc_memory_query::channel_tokens()'],['../structkvc__storage__info.html#a1d5b15883e2f1c60aabcca2e1f223069',1,'kvc_storage_info::channel_tokens()'],['../structkvc__storage__config.html#ab1c51ab47de62bc100cba9cb2fd0dabe',1,'kvc_storage_config::channel_tokens()']]],
  ['chunk_5ftokens_7',['chunk_tokens',['../structkvc__memory__query.html#ada5a16b45ed507a71467238fd173680c',1,'kvc_memory_query']]],
  ['column_8',['column',['../structkvc__table__change.html#aea370d40b55eb30d0d7dfd4cfc8dccb9',1,'kvc_table_change']]],
  ['commit_5foffsets_9',['commit_offsets',['../structkvc__step.html#a1925ef37a34a24860c5a607b7d259a53',1,'kvc_step']]],
  ['commit_5ftokens_10',['commit_tokens',['../structkvc__step.html#a61997315979c4fa8d66ff3717ca424a8',1,'kvc_step']]],
  ['committed_11',['committed',['../structkvc__step.html#abd372f0453a0b92637083eaf9c812e50',1,'kvc_step']]],
  ['copies_12',['copies',['../structkvc__stats.html#a3738f0aae9e2a91aab479f4934509fcf',1,'kvc_stats::copies()'],['../structkvc__step.html#ac979afb14809b734ff6053a4cb64d886',1,'kvc_step::copies()']]],
  ['copy_5fcapacity_13',['copy_capacity',['../structkvc__step.html#ae0ba6aa10fab58b07524349da8008271',1,'kvc_step']]]
];
