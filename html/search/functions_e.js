var searchData=
[
  ['size_0',['size',['../classkvc_1_1cpp_1_1Span.html#a7f182deb0c323c839252c2b244b5e66e',1,'kvc::cpp::Span']]],
  ['slots_1',['slots',['../classkvc_1_1cpp_1_1Request.html#add422bc921c1fe7f3a8307a750034e2e',1,'kvc::cpp::Request']]],
  ['span_2',['Span',['../classkvc_1_1cpp_1_1Span.html#a1c3aa05970bdd43a8d41bf86f2b6aba2',1,'kvc::cpp::Span::Span()=default'],['../classkvc_1_1cpp_1_1Span.html#ae8ceb2e77ebe1e712181297abc73259a',1,'kvc::cpp::Span::Span(T *data, size_t size)'],['../classkvc_1_1cpp_1_1Span.html#aea8911274e9ce9e928e3c68a2453106b',1,'kvc::cpp::Span::Span(T(&amp;array)[N])'],['../classkvc_1_1cpp_1_1Span.html#a10bb517b11820c33412ebe08cf8c26d4',1,'kvc::cpp::Span::Span(C &amp;&amp;container)']]],
  ['stats_3',['stats',['../classkvc_1_1cpp_1_1Manager.html#aaf9a8018d18c40cfb993dd86cbd412eb',1,'kvc::cpp::Manager']]],
  ['status_4',['status',['../classkvc_1_1cpp_1_1Error.html#a5ebf82d7ab1d21342abdc252d653f040',1,'kvc::cpp::Error::status()'],['../classkvc_1_1cpp_1_1Step.html#a479820c703d7cd98f6d72b1b8687149c',1,'kvc::cpp::Step::status() const']]],
  ['step_5',['Step',['../classkvc_1_1cpp_1_1Step.html#ade56823994a0b71e831ac66345ffa07e',1,'kvc::cpp::Step']]]
];
