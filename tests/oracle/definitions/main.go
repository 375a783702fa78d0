// SPDX-License-Identifier: Apache-2.0

// CustomResourceDefinitions as Kubernetes' own packages write them: one line each with its JSON and its
// protobuf in base64. See README.md.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

const frame = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"ws.x.io","labels":{"a":"b"}},
"spec":{"group":"x.io","names":{"plural":"ws","singular":"w","shortNames":["x"],"kind":"W","listKind":"WList","categories":["all"]},"scope":"Namespaced",
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%s},"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas",
"statusReplicasPath":".status.replicas","labelSelectorPath":".status.selector"}},"additionalPrinterColumns":[{"name":"A","type":"string","priority":1,"jsonPath":".spec.a"}],
"selectableFields":[{"jsonPath":".spec.a"}]},{"name":"v2","served":false,"storage":false,"deprecated":true,"deprecationWarning":"old","schema":{"openAPIV3Schema":{"type":"object"}}}],
"conversion":{"strategy":"None"}},"status":{"conditions":[{"type":"Established","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z"}],
"acceptedNames":{"plural":"ws","kind":"W"},"storedVersions":["v1"],"observedGeneration":3}}`

var schemas = []string{
	`{}`,
	`{"type":"object","description":"d \u00e9","properties":{"spec":{"type":"object","required":["a","b"],"properties":{"a":{"type":"string","pattern":"^a$","minLength":0,"maxLength":9},
"b":{"type":"number","format":"double","minimum":-1.5,"maximum":1e300,"exclusiveMaximum":true,"exclusiveMinimum":true,"multipleOf":0.5,"default":7.5}}}}}`,
	`{"id":"i","$schema":"s","$ref":"r","title":"t","default":{"b":[1,2.5,null,"x"],"a":{}},"enum":["a",1,null,true,[],{"k":"v"}],"example":"e","nullable":true}`,
	`{"type":"array","items":{"type":"string"},"minItems":0,"maxItems":5,"uniqueItems":true,"additionalItems":false}`,
	`{"items":[{"type":"string"},{}],"additionalItems":{"type":"integer"},"minProperties":1,"maxProperties":0}`,
	`{"allOf":[{"required":["a"]},{}],"oneOf":[{"not":{"type":"string"}}],"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}`,
	`{"additionalProperties":true,"patternProperties":{"^b":{},"^a":{"type":"string"}},"definitions":{"d":{"type":"boolean"}}}`,
	`{"additionalProperties":{"type":"string","x-kubernetes-preserve-unknown-fields":true},"dependencies":{"b":["c","d"],"a":{"type":"object"}}}`,
	`{"x-kubernetes-preserve-unknown-fields":false,"x-kubernetes-embedded-resource":true,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","l"],"x-kubernetes-map-type":"atomic",
"externalDocs":{"description":"d","url":"u"},"x-kubernetes-validations":[{"rule":"self.a == 1","message":"m","messageExpression":"'x'","reason":"FieldValueForbidden","fieldPath":".a",
"optionalOldSelf":true},{"rule":""}]}`,
}

func main() {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	s := protobuf.NewSerializer(scheme, scheme)
	for _, schema := range schemas {
		var o apiextensionsv1.CustomResourceDefinition
		if err := json.Unmarshal([]byte(fmt.Sprintf(strings.ReplaceAll(frame, "\n", ""), strings.ReplaceAll(schema, "\n", ""))), &o); err != nil {
			panic(err)
		}
		var wire bytes.Buffer
		if err := s.Encode(&o, &wire); err != nil {
			panic(err)
		}
		text, err := json.Marshal(&o)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\t%s\n", text, base64.StdEncoding.EncodeToString(wire.Bytes()))
	}
}
