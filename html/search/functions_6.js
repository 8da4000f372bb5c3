var searchData=
[
  ['get_0',['get',['../classkvc_1_1cpp_1_1Manager.html#a9885e98b195db6ef720872c92f406afd',1,'kvc::cpp::Manager']]]
];
