var searchData=
[
  ['fit_0',['Fit',['../classkvc_1_1cpp_1_1Fit.html#a40b9cacf4cd3930e79ac0a6bcebf2aa9',1,'kvc::cpp::Fit']]],
  ['fork_1',['fork',['../classkvc_1_1cpp_1_1Request.html#a23076dc0d2c0b87295280f3caaf7c7a1',1,'kvc::cpp::Request']]]
];
