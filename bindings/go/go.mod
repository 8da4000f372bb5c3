module libkvcache/bindings/go

go 1.19
