var searchData=
[
  ['make_0',['make',['../kvcache_8hpp.html#a1172dd3983cee069147a67162884c12d',1,'kvc::cpp']]],
  ['manager_1',['Manager',['../classkvc_1_1cpp_1_1Manager.html#a14dbbeed4d48f2aec05232e1f9cd92b1',1,'kvc::cpp::Manager::Manager(const kvc_manager_config &amp;config)'],['../classkvc_1_1cpp_1_1Manager.html#ae3b7d52866e7f72ef677224e267030c0',1,'kvc::cpp::Manager::Manager(uint64_t num_blocks, uint32_t block_size=16)']]]
];
