package karpenter

import "testing"

func TestSchemaHasTheFieldsOfTheCRD(t *testing.T) {
	text := `{"components":{"schemas":{
	  "sh.karpenter.v1.NodeClaim":{"properties":{"spec":{"properties":{"weight":{}}}}},
	  "sh.karpenter.v1.NodePool":{"properties":{"spec":{"properties":{"limits":{},"disruption":{"allOf":[{"properties":{
	    "budgets":{},"consolidationPolicy":{"enum":["WhenEmpty","Balanced"]}}}]}}}}}}}}`
	s, err := parseSchema([]byte(text))
	want := Schema{Known: true, Limits: true, Budgets: true, ConsolidationPolicy: true, DoNotDisruptDuration: true}
	if err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	for _, broken := range []string{``, `{`, `{"components":{}}`} {
		if _, err := parseSchema([]byte(broken)); err == nil {
			t.Errorf("%q is accepted", broken)
		}
	}
}
