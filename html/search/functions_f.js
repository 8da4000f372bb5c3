var searchData=
[
  ['table_0',['table',['../classkvc_1_1cpp_1_1Request.html#a68739d953dc78bfa6575d702463315b2',1,'kvc::cpp::Request']]],
  ['take_5fcopies_1',['take_copies',['../classkvc_1_1cpp_1_1Manager.html#a904d9f6d8e25e60b2493c99cb4b385ba',1,'kvc::cpp::Manager']]],
  ['truncate_2',['truncate',['../classkvc_1_1cpp_1_1Request.html#ad7d704a5097ece7b061a85209b0fc9c4',1,'kvc::cpp::Request']]]
];
