var searchData=
[
  ['request_0',['Request',['../classkvc_1_1cpp_1_1Request.html',1,'kvc::cpp::Request'],['../classkvc_1_1cpp_1_1Request.html',1,'kvc::Request']]]
];
