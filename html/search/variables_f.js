var searchData=
[
  ['q_0',['q',['../structkvc__attention.html#a04bf8e3b0f26bf3ce5f18aebf4ce45d6',1,'kvc_attention']]],
  ['q_5foffsets_1',['q_offsets',['../structkvc__attention.html#aa827437aa1a209c428b346766dfc7f4b',1,'kvc_attention']]],
  ['q_5fstarts_2',['q_starts',['../structkvc__attention.html#ac2cc2e66a6d0c2fddd8c0f223f88ed09',1,'kvc_attention']]]
];
