module consumer

go 1.19

require libkvcache/bindings/go v0.2.0

replace libkvcache/bindings/go => ../..
