// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"go/ast"
	"math"
	"reflect"
	"strings"
	"time"
)

// on are the objects of a type that methods without a row of their own are called on.
func (f *fuzzer) on() map[string]func(use func(object any) error) error {
	return map[string]func(use func(object any) error) error{
		"Manager": func(use func(any) error) error { return use(f.m) },
		"Storage": func(use func(any) error) error { return use(f.s) },
		"Tier":    func(use func(any) error) error { return use(f.tier) },
		"Offload": func(use func(any) error) error {
			return use([]*Offload{f.offload, f.closedOffload}[f.oneOf(0, 0, 0, 1)])
		},
		"Index":     func(use func(any) error) error { return f.index(func(i *Index) error { return use(i) }) },
		"Publisher": func(use func(any) error) error { return f.publisher(func(p *Publisher) error { return use(p) }) },
		"Sizer":     func(use func(any) error) error { return f.sizer(func(s *Sizer) error { return use(s) }) },
		"Workload":  func(use func(any) error) error { return f.workload(func(w *Workload) error { return use(w) }) },
		"Draft":     func(use func(any) error) error { return f.draft(func(d *Draft) error { return use(d) }) },
	}
}

// closedOn are what Close is called on, so that it does not end what others use. Of other types an object is made for each call.
func (f *fuzzer) closedOn() map[string]any {
	return map[string]any{"Manager": f.closed, "Storage": f.closedS, "Tier": f.closedTier, "Offload": f.closedOffload}
}

// derive adds a call to the table for each method that has none: its arguments follow from their types and names.
func (f *fuzzer) derive(table map[string]func() error, methods map[string]*ast.FuncDecl) {
	on := f.on()
	for name, declaration := range methods {
		owner, method, _ := strings.Cut(name, ".")
		if table[name] != nil || on[owner] == nil {
			continue
		}
		names := []string{}
		for _, field := range declaration.Type.Params.List {
			for _, one := range field.Names {
				names = append(names, one.Name)
			}
		}
		use := func(object any) error { return f.call(reflect.ValueOf(object).MethodByName(method), names) }
		table[name] = func() error {
			if closed := f.closedOn()[owner]; closed != nil && method == "Close" {
				return use(closed)
			}
			return on[owner](use)
		}
	}
}

// call calls a function, and keeps the ids that it returns.
func (f *fuzzer) call(function reflect.Value, names []string) (err error) {
	arguments := []reflect.Value{}
	for i, name := range names {
		arguments = append(arguments, f.argument(function.Type().In(i), name))
	}
	results := function.Call(arguments)
	if n := len(results); n > 0 {
		err, _ = results[n-1].Interface().(error)
	}
	for _, result := range results {
		switch id := result.Interface().(type) {
		case Request:
			f.keep(id, err)
		case Pin:
			if err == nil {
				f.pins = append(f.pins, id)
			}
		}
	}
	return err
}

// argument is a value of a type, mostly right for a parameter or a field of this name.
func (f *fuzzer) argument(of reflect.Type, name string) reflect.Value {
	value := reflect.New(of).Elem()
	switch value.Interface().(type) {
	case Namespace:
		return reflect.ValueOf(f.namespace())
	case Request:
		return reflect.ValueOf(f.request())
	case Pin:
		return reflect.ValueOf(pick(f, f.pins))
	case *RequestOptions:
		return reflect.ValueOf(f.options())
	case *JobOptions:
		return reflect.ValueOf(f.jobOptions())
	case PageConfig:
		return reflect.ValueOf(f.pageConfig())
	case *Attention:
		return reflect.ValueOf(f.attention())
	case *[32]byte:
		return reflect.ValueOf(f.root())
	case time.Duration: // of a wait: none that is taken is long
		return reflect.ValueOf([]time.Duration{0, time.Millisecond, -1, math.MaxInt64}[f.oneOf(0, 0, 1, 2, 3)])
	case []ExtraKey:
		return reflect.ValueOf(f.extraKeys())
	case []BlockCopy:
		return reflect.ValueOf(f.copies())
	case [][32]byte:
		return reflect.ValueOf(f.pageKeys())
	case []int32:
		if strings.Contains(strings.ToLower(name), "block") {
			return reflect.ValueOf(f.blockList())
		}
		return reflect.ValueOf(f.prompt())
	case []uint64:
		return reflect.ValueOf(slice(f, f.Intn(3), func() uint64 { return f.small(3) }))
	}
	switch of.Kind() {
	case reflect.Struct:
		for i := 0; i < of.NumField(); i++ {
			if of.Field(i).IsExported() {
				value.Field(i).Set(f.argument(of.Field(i).Type, of.Field(i).Name))
			}
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(of, f.Intn(4), 4))
		for i := 0; i < value.Len(); i++ {
			value.Index(i).Set(f.argument(of.Elem(), name))
		}
	case reflect.Array:
		value.Index(0).Set(f.argument(of.Elem(), name))
	case reflect.String:
		value.SetString(f.name())
	case reflect.Bool:
		value.SetBool(f.Intn(2) == 0)
	case reflect.Float64:
		value.SetFloat([]float64{0, 0.5, 1, 3, -1, 1e300, math.NaN()}[f.Intn(7)])
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(int64(f.like(name)))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		value.SetUint(f.like(name) & (1<<of.Bits() - 1))
	default:
		panic("the fuzz has no value of " + of.String() + " " + name)
	}
	return value
}

// like is mostly a number that a parameter of this name may have.
func (f *fuzzer) like(name string) uint64 {
	switch strings.ToLower(name) {
	case "pool", "group", "layer", "tier", "worker", "medium", "kind", "headroom":
		return f.small(3)
	case "stepid":
		return f.oneOf(f.step.StepID, f.number())
	case "blocksize":
		return f.oneOf(4, 4, 0, 2000)
	case "nowns":
		return f.small(40)
	case "priority":
		return f.oneOf(0, 35, 100, uint64(PriorityDemoted), f.number())
	}
	return f.number()
}
