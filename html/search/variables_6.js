var searchData=
[
  ['group_0',['group',['../structkvc__block__info.html#a842eedb9bc83c814ec8d795bf41e0eb4',1,'kvc_block_info::group()'],['../structkvc__table__change.html#af0218598c548b5130cc01b07c7ac517d',1,'kvc_table_change::group()'],['../structkvc__event.html#a1cafe9ed59a0123e3055d39c9df632ec',1,'kvc_event::group()'],['../structkvc__quant__format.html#add8e08ea9d9c6b59bdae087361dd121e',1,'kvc_quant_format::group()']]],
  ['groups_1',['groups',['../structkvc__manager__config.html#a30fcae1258c16195172ae3f78d939760',1,'kvc_manager_config']]]
];
