var searchData=
[
  ['pin_0',['Pin',['../kvcache_8hpp.html#a73504b71c0b959b4c62e4d3ee36e1619',1,'kvc::cpp']]]
];
