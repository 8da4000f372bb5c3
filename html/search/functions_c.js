var searchData=
[
  ['pin_0',['pin',['../classkvc_1_1cpp_1_1Manager.html#a081a94efd79e0687bbd2c7c37361cb25',1,'kvc::cpp::Manager']]],
  ['pool_1',['pool',['../classkvc_1_1cpp_1_1Manager.html#aa98a0d7fe308e0cfa0ae00206261dc8e',1,'kvc::cpp::Manager']]],
  ['preempt_2',['preempt',['../classkvc_1_1cpp_1_1Request.html#a0601c38e6329564426e1451810a826a6',1,'kvc::cpp::Request']]],
  ['probe_3',['probe',['../classkvc_1_1cpp_1_1Manager.html#af48531b73fc194d0d23c1b76ce4acc52',1,'kvc::cpp::Manager']]],
  ['properties_4',['properties',['../classkvc_1_1cpp_1_1Manager.html#a29acf78d6a916b797cf7a1b202a98230',1,'kvc::cpp::Manager']]]
];
