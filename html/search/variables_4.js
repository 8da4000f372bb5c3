var searchData=
[
  ['elements_0',['elements',['../structkvc__quant__metrics.html#acaabeac645656e3b47fba20b6e6092a2',1,'kvc_quant_metrics']]],
  ['epoch_1',['epoch',['../structkvc__event.html#a01507565b950e2b0c4b59aabb7610d31',1,'kvc_event::epoch()'],['../structkvc__stats.html#a698fc5d680a38c4901f43d26b20de50c',1,'kvc_stats::epoch()']]],
  ['event_5fcapacity_2',['event_capacity',['../structkvc__manager__config.html#a51b0d4d7dc81bad263edb6bb559e9268',1,'kvc_manager_config::event_capacity()'],['../structkvc__properties.html#a179dc3de984731cad853f600016ed858',1,'kvc_properties::event_capacity()']]],
  ['evictions_3',['evictions',['../structkvc__stats.html#adc1e3abaf82ceb1726b11de63a164290',1,'kvc_stats']]],
  ['extend_5foffsets_4',['extend_offsets',['../structkvc__step.html#ad03d93c8d94843e141523e11fc0e4ddd',1,'kvc_step']]],
  ['extend_5ftokens_5',['extend_tokens',['../structkvc__step.html#aaa927dd06afc754dfcaa138b2d13ec68',1,'kvc_step']]],
  ['external_5ftokens_6',['external_tokens',['../structkvc__request__config.html#adefded1e1a8dcbf13c3ca5beda06976c',1,'kvc_request_config']]],
  ['extra_5fdigest_7',['extra_digest',['../structkvc__event.html#a36f82f401bc0d055869310dc42e464c6',1,'kvc_event']]]
];
