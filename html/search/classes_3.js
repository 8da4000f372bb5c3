var searchData=
[
  ['handle_0',['Handle',['../classkvc_1_1cpp_1_1Handle.html',1,'kvc::cpp::Handle&lt; kGiveBack &gt;'],['../classkvc_1_1cpp_1_1Handle.html',1,'kvc::Handle&lt; kGiveBack &gt;']]],
  ['handle_3c_20kvc_5fmanager_5ffree_5frequest_20_3e_1',['Handle&lt; kvc_manager_free_request &gt;',['../classkvc_1_1cpp_1_1Handle.html',1,'kvc::cpp']]]
];
