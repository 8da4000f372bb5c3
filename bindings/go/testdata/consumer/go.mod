module consumer

go 1.19

require libkvcache/bindings/go v0.3.0

replace libkvcache/bindings/go => ../..
