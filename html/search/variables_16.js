var searchData=
[
  ['x_0',['x',['../structkvc__rope__rows.html#ae8a452d14afa3c19b05449bc983027b0',1,'kvc_rope_rows']]]
];
