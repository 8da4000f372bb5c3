var searchData=
[
  ['begin_0',['begin',['../classkvc_1_1cpp_1_1Span.html#a5373d748a454207f89d79f625e162bd3',1,'kvc::cpp::Span']]]
];
