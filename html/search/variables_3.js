var searchData=
[
  ['data_0',['data',['../structkvc__storage__info.html#a6723f1f7ee8f273d63ad95f09f3d508c',1,'kvc_storage_info::data()'],['../structkvc__memory__handle.html#ae756a2e4d1441723d8bd008001d955cd',1,'kvc_memory_handle::data()'],['../structkvc__view.html#af1e6ac821828ce9376a0cda2bff2a7a5',1,'kvc_view::data()']]],
  ['destination_1',['destination',['../structkvc__block__copy.html#a193b1d2b20ef2af314ee1a6d42a859ea',1,'kvc_block_copy']]],
  ['device_2',['device',['../structkvc__storage__config.html#a630e634e381393e78479e3b351a2f1c3',1,'kvc_storage_config::device()'],['../structkvc__memory__handle.html#a9d6cd6cbb90d7a8ddc27b50daf82f006',1,'kvc_memory_handle::device()']]],
  ['digest_3',['digest',['../structkvc__extra__key.html#aed4c76b1925ee190c4783a04cbf0ce9a',1,'kvc_extra_key::digest()'],['../structkvc__event.html#abaa5d9f7141e3fe580a10cc0274a0901',1,'kvc_event::digest()']]],
  ['dlpack_5fdevice_4',['dlpack_device',['../structkvc__device__info.html#accc188277d11bd93843af6d6e49547fe',1,'kvc_device_info']]],
  ['drop_5ftail_5fblocks_5',['drop_tail_blocks',['../structkvc__request__config.html#a48567a584992f4fa2a16170159bc7874',1,'kvc_request_config']]],
  ['dtype_6',['dtype',['../structkvc__view.html#a7bcc42697af6f0105c82d79f2a357a14',1,'kvc_view::dtype()'],['../structkvc__storage__config.html#ac036e7dccf23af68b856956f6a300be4',1,'kvc_storage_config::dtype()'],['../structkvc__storage__info.html#a08fa1d7fd76c8e78fe5a005de2f6fa5b',1,'kvc_storage_info::dtype()'],['../structkvc__quant__format.html#aca3be2b3b3aa285dbe67cc8192f167ba',1,'kvc_quant_format::dtype()'],['../structkvc__rows.html#a16a6e262ce84fde9121a88d2ee25c13b',1,'kvc_rows::dtype()'],['../structkvc__attention.html#aa4a23d1f8b45342e0757bf44713aeed1',1,'kvc_attention::dtype()'],['../structkvc__rope__rows.html#ae85721ee3ce080d7f4566aa36e73dad0',1,'kvc_rope_rows::dtype()'],['../structkvc__memory__query.html#af661a07b37fc82bc8421048c3cadacf3',1,'kvc_memory_query::dtype()']]],
  ['duplicates_7',['duplicates',['../structkvc__stats.html#a59afd6e8882689021e783f74d675a674',1,'kvc_stats']]]
];
