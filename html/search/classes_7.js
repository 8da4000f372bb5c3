var searchData=
[
  ['span_0',['Span',['../classkvc_1_1cpp_1_1Span.html',1,'kvc::cpp::Span&lt; T &gt;'],['../classkvc_1_1cpp_1_1Span.html',1,'kvc::Span&lt; T &gt;']]],
  ['step_1',['Step',['../classkvc_1_1cpp_1_1Step.html',1,'kvc::cpp::Step'],['../classkvc_1_1cpp_1_1Step.html',1,'kvc::Step']]]
];
