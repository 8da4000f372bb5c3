var searchData=
[
  ['verify_0',['verify',['../classkvc_1_1cpp_1_1Manager.html#af1d602e2121be0898746d232c1910972',1,'kvc::cpp::Manager']]]
];
