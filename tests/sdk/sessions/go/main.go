// A session with the client that openapi-generator -g go makes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"headgate"
)

func must[T any](value T, _ any, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	configuration := headgate.NewConfiguration()
	configuration.Servers = headgate.ServerConfigurations{{URL: os.Args[1]}}
	client := headgate.NewAPIClient(configuration)
	nobody := context.Background()
	ctx := context.WithValue(nobody, headgate.ContextAccessToken, os.Getenv("HEADGATE_TOKEN"))

	zero := headgate.NewAppend()
	zero.SetFields(map[string]string{"text": "zero"})
	_, _, err := client.EntriesAPI.AppendEntry(nobody, "talk").Append(*zero).Execute()
	var unknown *headgate.GenericOpenAPIError
	if !errors.As(err, &unknown) {
		log.Fatal(err)
	}

	ids := []string{}
	for _, text := range []string{"one", "two", "three"} {
		body := headgate.NewAppend()
		body.SetFields(map[string]string{"text": text})
		ids = append(ids, must(client.EntriesAPI.AppendEntry(ctx, "talk").Append(*body).Execute()).Id)
	}
	start := headgate.NewGroupInput()
	start.SetStart("0")
	group := must(client.GroupsAPI.CreateGroup(ctx, "talk", "readers").GroupInput(*start).Execute())
	wanted := headgate.NewReadGroup()
	wanted.SetLimit(2)
	read := must(client.DeliveryAPI.ReadGroup(ctx, "talk", "readers").Consumer("me").ReadGroup(*wanted).Execute())
	first := headgate.NewIds(ids[:1])
	acked := must(client.DeliveryAPI.AckEntries(ctx, "talk", "readers").Consumer("me").Ids(*first).Execute())
	pending := must(client.DeliveryAPI.ListPending(ctx, "talk", "readers").Consumer("me").Execute())
	_, _, err = client.DeliveryAPI.ReadGroup(ctx, "talk", "nobody").Consumer("me").ReadGroup(*wanted).Execute()
	var refused *headgate.GenericOpenAPIError
	if !errors.As(err, &refused) {
		log.Fatal(err)
	}
	problem := refused.Model().(headgate.Problem)

	entries, outcomes, held := [][]string{}, []headgate.Outcome{}, [][]string{}
	for _, one := range read.Entries {
		entries = append(entries, []string{one.Id, one.Fields["text"]})
	}
	for _, one := range acked.Results {
		outcomes = append(outcomes, one.Outcome)
	}
	for _, one := range pending.Pending {
		held = append(held, []string{one.Id, one.GetConsumer()})
	}
	told, err := json.Marshal(map[string]any{
		"ids": ids, "lag": group.GetLag(), "read": entries,
		"outcomes": outcomes, "pending": held, "problem": problem.Code,
		"refused": unknown.Model().(headgate.Problem).Code,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(told))
}
