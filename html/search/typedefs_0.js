var searchData=
[
  ['keys_0',['Keys',['../kvcache_8hpp.html#af886bc7aabaac2f35bac3f4175d83fa0',1,'kvc::cpp']]],
  ['kvc_5fmanager_1',['kvc_manager',['../kvcache_8h.html#a365aba3d3c53543c4804fe6f40c23be0',1,'kvcache.h']]],
  ['kvc_5fstatus_2',['kvc_status',['../kvcache_8h.html#ab3ef5263e16c2b15996e914b8ca92296',1,'kvcache.h']]],
  ['kvc_5fstorage_3',['kvc_storage',['../kvcache_8h.html#a3dc3a5a8e35826f7d2a5da233e02f515',1,'kvcache.h']]],
  ['kvc_5fstream_4',['kvc_stream',['../kvcache_8h.html#aae754780ac1225a9faf1f98d9ef5519a',1,'kvcache.h']]],
  ['kvc_5fstream_5fevent_5',['kvc_stream_event',['../kvcache_8h.html#aa0ac001b319587f42f1bdb148819dae3',1,'kvcache.h']]]
];
