var searchData=
[
  ['admit_0',['admit',['../classkvc_1_1cpp_1_1Request.html#ace773caf2b220d143e0eed10d0d86797',1,'kvc::cpp::Request']]],
  ['again_1',['again',['../classkvc_1_1cpp_1_1Fit.html#a77948f4480c87a4dafa37f19a79d0a5d',1,'kvc::cpp::Fit']]],
  ['allocate_2',['allocate',['../classkvc_1_1cpp_1_1Manager.html#a83a858e9f34e43a1ca1cada4bf356c75',1,'kvc::cpp::Manager']]],
  ['append_3',['append',['../classkvc_1_1cpp_1_1Request.html#abfcd3da743c39af2bdcfefb862022eaf',1,'kvc::cpp::Request']]],
  ['array_4',['array',['../classkvc_1_1cpp_1_1Step.html#ab72c35e32b191a7415f27206571c5472',1,'kvc::cpp::Step']]],
  ['ask_5',['ask',['../kvcache_8hpp.html#a7e6ba7dbb8b6370a23294328b62f9686',1,'kvc::cpp']]]
];
