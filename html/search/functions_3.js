var searchData=
[
  ['data_0',['data',['../classkvc_1_1cpp_1_1Span.html#a0148924a2f28904c691a869feac5f1aa',1,'kvc::cpp::Span']]],
  ['digest_1',['digest',['../classkvc_1_1cpp_1_1Manager.html#a35abd66b82da14294cae723109ad4fed',1,'kvc::cpp::Manager']]],
  ['drop_2',['drop',['../classkvc_1_1cpp_1_1Manager.html#aac6256b6d7cb9034692526af5c4ca311',1,'kvc::cpp::Manager']]]
];
