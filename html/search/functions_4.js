var searchData=
[
  ['end_0',['end',['../classkvc_1_1cpp_1_1Span.html#a86adf4de63abfdd54f0750881a0f71c7',1,'kvc::cpp::Span']]],
  ['error_1',['Error',['../classkvc_1_1cpp_1_1Error.html#a2d09745c33be871fb000a49b9a40044a',1,'kvc::cpp::Error']]],
  ['evict_2',['evict',['../classkvc_1_1cpp_1_1Manager.html#a3806a86e84ae51af7b3d85128d9e5d51',1,'kvc::cpp::Manager']]]
];
