var searchData=
[
  ['offset_0',['offset',['../structkvc__run.html#a7c4a5db34808f770c4528ace482d2bb9',1,'kvc_run']]],
  ['open_5fblocks_1',['open_blocks',['../structkvc__storage__config.html#a0b84e0036820f2cdb0bbd45e86e2be08',1,'kvc_storage_config::open_blocks()'],['../structkvc__storage__info.html#a26b09d38f8e93d0871719812089e7ced',1,'kvc_storage_info::open_blocks()']]],
  ['open_5fbytes_2',['open_bytes',['../structkvc__storage__info.html#a0cfe77552bbe15d6d360849ba6e7e715',1,'kvc_storage_info::open_bytes()'],['../structkvc__memory__estimate.html#a12759b842e732801894740aa43689940',1,'kvc_memory_estimate::open_bytes()']]],
  ['open_5fnamespace_3',['open_namespace',['../classkvc_1_1cpp_1_1Manager.html#a749944eed1a7893a830c3d1820c5e18c',1,'kvc::cpp::Manager']]],
  ['operator_20bool_4',['operator bool',['../classkvc_1_1cpp_1_1Fit.html#a97c43676063f02c133408960b63f6aac',1,'kvc::cpp::Fit::operator bool()'],['../classkvc_1_1cpp_1_1Handle.html#af04ae4b3cd3838366aec7c119f605bc6',1,'kvc::cpp::Handle::operator bool()']]],
  ['operator_28_29_5',['operator()',['../structkvc_1_1cpp_1_1Destroy.html#acbf5fb961a738671bb268b4f4a5bfad4',1,'kvc::cpp::Destroy::operator()(kvc_manager *m) const noexcept'],['../structkvc_1_1cpp_1_1Destroy.html#a39e9c409307b5e63032695a5c1c291ca',1,'kvc::cpp::Destroy::operator()(kvc_step *s) const noexcept']]],
  ['operator_2d_3e_6',['operator-&gt;',['../classkvc_1_1cpp_1_1Step.html#a702765767663f8bb4cd632a6658230ea',1,'kvc::cpp::Step']]],
  ['operator_3d_7',['operator=',['../classkvc_1_1cpp_1_1Handle.html#ad72c123100c2c5bcea0c11da6049b5f5',1,'kvc::cpp::Handle']]],
  ['operator_5b_5d_8',['operator[]',['../classkvc_1_1cpp_1_1Span.html#ae9a48f5b41ed0ac79910d527c6df6a77',1,'kvc::cpp::Span']]],
  ['out_9',['out',['../structkvc__attention.html#a9deac6a180f819a429975789df7baf08',1,'kvc_attention']]]
];
