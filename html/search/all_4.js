var searchData=
[
  ['elements_0',['elements',['../structkvc__quant__metrics.html#acaabeac645656e3b47fba20b6e6092a2',1,'kvc_quant_metrics']]],
  ['end_1',['end',['../classkvc_1_1cpp_1_1Span.html#a86adf4de63abfdd54f0750881a0f71c7',1,'kvc::cpp::Span']]],
  ['epoch_2',['epoch',['../structkvc__event.html#a01507565b950e2b0c4b59aabb7610d31',1,'kvc_event::epoch()'],['../structkvc__stats.html#a698fc5d680a38c4901f43d26b20de50c',1,'kvc_stats::epoch()']]],
  ['error_3',['Error',['../classkvc_1_1cpp_1_1Error.html#a2d09745c33be871fb000a49b9a40044a',1,'kvc::cpp::Error::Error()'],['../classkvc_1_1cpp_1_1Error.html',1,'kvc::cpp::Error'],['../classkvc_1_1cpp_1_1Error.html',1,'kvc::Error']]],
  ['event_5fcapacity_4',['event_capacity',['../structkvc__manager__config.html#a51b0d4d7dc81bad263edb6bb559e9268',1,'kvc_manager_config::event_capacity()'],['../structkvc__properties.html#a179dc3de984731cad853f600016ed858',1,'kvc_properties::event_capacity()']]],
  ['evict_5',['evict',['../classkvc_1_1cpp_1_1Manager.html#a3806a86e84ae51af7b3d85128d9e5d51',1,'kvc::cpp::Manager']]],
  ['evictions_6',['evictions',['../structkvc__stats.html#adc1e3abaf82ceb1726b11de63a164290',1,'kvc_stats']]],
  ['extend_5foffsets_7',['extend_offsets',['../structkvc__step.html#ad03d93c8d94843e141523e11fc0e4ddd',1,'kvc_step']]],
  ['extend_5ftokens_8',['extend_tokens',['../structkvc__step.html#aaa927dd06afc754dfcaa138b2d13ec68',1,'kvc_step']]],
  ['external_5ftokens_9',['external_tokens',['../structkvc__request__config.html#adefded1e1a8dcbf13c3ca5beda06976c',1,'kvc_request_config']]],
  ['extra_5fdigest_10',['extra_digest',['../structkvc__event.html#a36f82f401bc0d055869310dc42e464c6',1,'kvc_event']]]
];
