var searchData=
[
  ['fit_0',['Fit',['../classkvc_1_1cpp_1_1Fit.html',1,'kvc::cpp::Fit'],['../classkvc_1_1cpp_1_1Fit.html',1,'kvc::Fit']]]
];
