var searchData=
[
  ['release_0',['release',['../classkvc_1_1cpp_1_1Handle.html#a261581152f19db28d2042a78ae0d431f',1,'kvc::cpp::Handle']]],
  ['reserve_1',['reserve',['../classkvc_1_1cpp_1_1Request.html#aea6b5f04e444f46d341744350a497f01',1,'kvc::cpp::Request']]],
  ['reset_2',['reset',['../classkvc_1_1cpp_1_1Handle.html#a08e71f47f5d82dcf81bf1cafc0a5e28b',1,'kvc::cpp::Handle::reset()'],['../classkvc_1_1cpp_1_1Manager.html#aea762a8833e33481a79152d696ade81a',1,'kvc::cpp::Manager::reset()']]],
  ['row_3',['row',['../classkvc_1_1cpp_1_1Step.html#a8900dbceb175510e944854c2bacd777a',1,'kvc::cpp::Step']]],
  ['run_4',['run',['../classkvc_1_1cpp_1_1Step.html#ace58694730ec64ad35f48b95a51fa95d',1,'kvc::cpp::Step']]]
];
