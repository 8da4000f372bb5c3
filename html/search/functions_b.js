var searchData=
[
  ['open_5fnamespace_0',['open_namespace',['../classkvc_1_1cpp_1_1Manager.html#a749944eed1a7893a830c3d1820c5e18c',1,'kvc::cpp::Manager']]],
  ['operator_20bool_1',['operator bool',['../classkvc_1_1cpp_1_1Fit.html#a97c43676063f02c133408960b63f6aac',1,'kvc::cpp::Fit::operator bool()'],['../classkvc_1_1cpp_1_1Handle.html#af04ae4b3cd3838366aec7c119f605bc6',1,'kvc::cpp::Handle::operator bool()']]],
  ['operator_28_29_2',['operator()',['../structkvc_1_1cpp_1_1Destroy.html#acbf5fb961a738671bb268b4f4a5bfad4',1,'kvc::cpp::Destroy::operator()(kvc_manager *m) const noexcept'],['../structkvc_1_1cpp_1_1Destroy.html#a39e9c409307b5e63032695a5c1c291ca',1,'kvc::cpp::Destroy::operator()(kvc_step *s) const noexcept']]],
  ['operator_2d_3e_3',['operator-&gt;',['../classkvc_1_1cpp_1_1Step.html#a702765767663f8bb4cd632a6658230ea',1,'kvc::cpp::Step']]],
  ['operator_3d_4',['operator=',['../classkvc_1_1cpp_1_1Handle.html#ad72c123100c2c5bcea0c11da6049b5f5',1,'kvc::cpp::Handle']]],
  ['operator_5b_5d_5',['operator[]',['../classkvc_1_1cpp_1_1Span.html#ae9a48f5b41ed0ac79910d527c6df6a77',1,'kvc::cpp::Span']]]
];
