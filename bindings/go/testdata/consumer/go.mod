module consumer

go 1.19

require github.com/libkvcache/libkvcache/bindings/go v0.3.0

replace github.com/libkvcache/libkvcache/bindings/go => ../..
